package hostd

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/berth-dev/berth/machine/internal/layers"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (h *Host) listLayer(ctx context.Context, r wire.LayerListRequest) (wire.LayerList, error) {
	points, err := h.mountLayers([]string{r.Layer})
	if err != nil {
		return wire.LayerList{}, err
	}
	list, err := layers.List(ctx, points[0], r.After)
	if errors.Is(err, layers.ErrTooManyEntries) {
		return wire.LayerList{}, layerError(err)
	}
	if err != nil {
		return wire.LayerList{}, because("internal", "The layer could not be listed", err)
	}
	return list, nil
}

func checkLayerList(r wire.LayerListRequest) error {
	if r.After != "" && (len(r.After) > 4096 || !strings.HasPrefix(r.After, "/") || path.Clean(r.After) != r.After) {
		return refuse("bad_request", "after is no absolute path")
	}
	return checkLayers([]string{r.Layer})
}

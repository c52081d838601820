package hostd

import (
	"cmp"
	"slices"
	"time"
)

const (
	diskReadersMax = 16 // at once, 15-30 MiB each
	besidesMax     = 8  // of them may read the disks of running machines, which can be read by their machines, too
	// diskReaderHeld: one that was handed out so lately gives way only to a tenant that has fewer.
	diskReaderHeld = 5 * time.Second
	// placeTries bounds how often a reader that starts finds its place taken by another one.
	placeTries = 4
)

// readerPlace is what counts where a reader wants the place of another one.
type readerPlace struct {
	workspace, tenant string
	beside            bool
	starts            bool // it cannot be ended yet
	used              time.Time
}

// placeReader keeps a place for a reader that is about to be started. Where all are taken, another reader gives way.
func (h *Host) placeReader(open *openReader) error {
	for range placeTries {
		victim, placed := h.reads.reserve(open, time.Now())
		if placed {
			return nil
		}
		if victim == nil {
			break
		}
		// A verb of its workspace finds it until it has ended, and so does not touch the disk that it reads.
		err := victim.end()
		h.reads.drop(victim)
		if err != nil {
			return because("start_failed", "A disk's reader could not be ended for another one", err)
		}
	}
	return refuse("no_capacity", "Too many workspaces' disks are being read")
}

// reserve gives the place, or the reader that is to give way; nil: none.
func (d *diskReads) reserve(open *openReader, now time.Time) (victim *openReader, placed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	places := []readerPlace{}
	for _, reader := range d.readers {
		places = append(places, reader.place())
	}
	workspace, full := givesWay(places, open.place(), now)
	if full {
		return d.readers[workspace], false
	}
	d.readers[open.source.WorkspaceID] = open
	return nil, true
}

func (o *openReader) place() readerPlace {
	return readerPlace{workspace: o.source.WorkspaceID, tenant: cmp.Or(o.source.Tenant, o.source.WorkspaceID), beside: o.disk != "", starts: !o.runs(), used: o.used}
}

// givesWay names the workspace whose reader gives way to a newcomer, where there is no place; "": none does. That is the one that was unused for
// longest: of a tenant that has more than the newcomer's would have, else of those that are not in use.
func givesWay(places []readerPlace, newcomer readerPlace, now time.Time) (workspace string, full bool) {
	if newcomer.beside {
		besides := slices.DeleteFunc(slices.Clone(places), func(p readerPlace) bool { return !p.beside })
		if len(besides) >= besidesMax {
			places, full = besides, true
		}
	}
	if !full && len(places) < diskReadersMax {
		return "", false
	}
	of := map[string]int{}
	for _, place := range places {
		of[place.tenant]++
	}
	var longest *readerPlace
	for i, place := range places {
		greedy, idle := of[place.tenant] > of[newcomer.tenant]+1, now.Sub(place.used) >= diskReaderHeld
		if !place.starts && (greedy || idle) && (longest == nil || place.used.Before(longest.used)) {
			longest = &places[i]
		}
	}
	if longest == nil {
		return "", true
	}
	return longest.workspace, true
}

func (d *diskReads) use(reader *openReader) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reader.used = time.Now()
}

func (d *diskReads) drop(reader *openReader) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readers[reader.source.WorkspaceID] == reader {
		delete(d.readers, reader.source.WorkspaceID)
	}
}

package hostd

import (
	"cmp"
	"slices"
	"time"
)

const (
	diskReadersMax = 16 // concurrent readers, 15-30 MiB each
	besidesMax     = 8  // maximum of readers of running machines, whose agents could read the disk instead
	// For this long after its use, a reader is evicted only for a tenant with fewer readers.
	diskReaderHeld = 5 * time.Second
	// A start tries again, because another reader can get the freed permit first.
	placeTries = 4
)

type readerPermit struct {
	workspace, tenant string
	beside            bool
	starts            bool // still starting, so it cannot be ended
	used              time.Time
}

func (h *Host) acquirePermit(open *openReader) error {
	for range placeTries {
		victim, placed := h.reads.reserve(open, time.Now())
		if placed {
			return nil
		}
		if victim == nil {
			break
		}
		// The victim is listed until it has ended, so that no verb changes the disk that it reads.
		err := victim.end()
		h.reads.drop(victim)
		if err != nil {
			return because("start_failed", "A disk's reader could not be ended for another one", err)
		}
	}
	return refuse("no_capacity", "Too many workspaces' disks are being read")
}

// A nil victim without a place means that no reader can be evicted.
func (d *diskReads) reserve(open *openReader, now time.Time) (victim *openReader, placed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	places := []readerPermit{}
	for _, reader := range d.readers {
		places = append(places, reader.place())
	}
	workspace, full := readerToEvict(places, open.place(), now)
	if full {
		return d.readers[workspace], false
	}
	d.readers[open.source.WorkspaceID] = open
	return nil, true
}

func (o *openReader) place() readerPermit {
	return readerPermit{workspace: o.source.WorkspaceID, tenant: cmp.Or(o.source.Tenant, o.source.WorkspaceID), beside: o.disk != "", starts: !o.runs(), used: o.used}
}

// readerToEvict picks the reader that was unused for the longest time. It must be idle, or of a tenant with more
// readers than the newcomer's would have. "" means that there is none.
func readerToEvict(places []readerPermit, newcomer readerPermit, now time.Time) (workspace string, full bool) {
	if newcomer.beside {
		besides := slices.DeleteFunc(slices.Clone(places), func(p readerPermit) bool { return !p.beside })
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
	var longest *readerPermit
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

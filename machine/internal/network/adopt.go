package network

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/nftables"
)

func (r *Router) adoptOutlets(table *nftables.Table) error {
	sets, err := r.rules.conn.GetSets(table)
	if err != nil {
		return fmt.Errorf("read the sets of machines: %w", err)
	}
	now := time.Now()
	for _, set := range sets {
		var index int
		if _, err := fmt.Sscanf(set.Name, namesPrefix+"%d_", &index); err != nil {
			continue
		}
		s := r.byIP[r.address(index, 2)]
		if s == nil {
			continue
		}
		elements, err := r.rules.conn.GetSetElements(set)
		if err != nil {
			return fmt.Errorf("read the set %s: %w", set.Name, err)
		}
		s.outlet.adopt(elements, now)
	}
	for s, outlet := range r.connectedOutlets() {
		if !outlet.counts {
			continue
		}
		if r.saveRefusals(s); outlet.failed {
			continue // its policy file could not be read
		}
		if err := r.writePolicy(s, outlet); err != nil {
			return err
		}
	}
	return nil
}

func (o outlet) adopt(elements []nftables.SetElement, now time.Time) {
	for _, element := range elements {
		address, _, ok := splitPortKey(element.Key)
		if !ok {
			continue
		}
		known := o.grants[address]
		if known == nil {
			known = &grant{until: map[string]time.Time{}}
			o.grants[address] = known
		}
		for name := range strings.FieldsSeq(element.Comment) {
			if until := now.Add(element.Expires); until.After(known.until[name]) {
				known.until[name] = until
			}
		}
	}
}

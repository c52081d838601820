package question

import "container/list"

// recent is an LRU cache with a maximum size.
type recent[K comparable, V any] struct {
	most  int
	found map[K]*list.Element
	order list.List // least recently used first
}

type recentEntry[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{most: most, found: map[K]*list.Element{}}
}

func (r *recent[K, V]) use(key K, make func() V) V {
	if element := r.found[key]; element != nil {
		r.order.MoveToBack(element)
		return element.Value.(recentEntry[K, V]).value
	}
	if len(r.found) >= r.most {
		r.dropOldest()
	}
	value := make()
	r.found[key] = r.order.PushBack(recentEntry[K, V]{key, value})
	return value
}

func (r *recent[K, V]) has(key K) bool { return r.found[key] != nil }

func (r *recent[K, V]) drop(key K) {
	if element := r.found[key]; element != nil {
		r.order.Remove(element)
		delete(r.found, key)
	}
}

func (r *recent[K, V]) dropOldest() {
	if oldest := r.order.Front(); oldest != nil {
		r.drop(oldest.Value.(recentEntry[K, V]).key)
	}
}

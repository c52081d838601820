package proxy

import "sync"

type counted[K comparable] struct {
	mu   sync.Mutex
	many map[K]int
}

func (c *counted[K]) add(key K, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.many == nil {
		c.many = map[K]int{}
	}
	if c.many[key] >= most {
		return false
	}
	c.many[key]++
	return true
}

func (c *counted[K]) remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.many[key]--; c.many[key] <= 0 {
		delete(c.many, key)
	}
}

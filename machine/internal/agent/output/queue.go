package output

import (
	"sync"
	"sync/atomic"
)

const (
	// QueueBytesMax limits a stream's bytes that wait for the disk.
	QueueBytesMax = 64 << 10
	// queuedBytesMax limits all streams together. Beyond it each stream may still queue pageBytes, so that no stream is
	// starved.
	queuedBytesMax = 16 << 20
	pageBytes      = 4 << 10
)

type Queues struct{ bytes atomic.Int64 }

// Queue writes a stream on its own goroutine, so that a slow disk delays only this stream. Only one goroutine at a
// time may call Capacity and Put.
type Queue struct {
	queues *Queues
	stream *Stream
	wrote  func(grown int64)

	mu      sync.Mutex
	waiting []byte
	writing bool
	changed []chan struct{} // closed after each write
	hasRoom func()          // called once when bytes may be put
}

// NewQueue returns a queue that passes the result of each Append to wrote.
func (q *Queues) NewQueue(stream *Stream, wrote func(grown int64)) *Queue {
	return &Queue{queues: q, stream: stream, wrote: wrote}
}

// Capacity is how many bytes may be put.
func (q *Queue) Capacity() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.room()
}

func (q *Queue) room() int {
	most := QueueBytesMax
	if q.queues.bytes.Load() >= queuedBytesMax {
		most = pageBytes
	}
	return max(0, most-len(q.waiting))
}

// OnCapacity calls f on another goroutine once bytes may be put. It returns false, without a call of f, if bytes may
// be put already.
func (q *Queue) OnCapacity(f func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.room() > 0 {
		return false
	}
	q.hasRoom = f
	return true
}

// Put queues a copy of p.
func (q *Queue) Put(p []byte) {
	q.queues.bytes.Add(int64(len(p)))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, p...)
	if !q.writing {
		q.writing = true
		go q.write()
	}
}

// Wait returns once the queue is empty, even if the disk refused bytes.
func (q *Queue) Wait() { q.await(func() bool { return !q.writing }) }

func (q *Queue) WaitForRoom() { q.await(func() bool { return q.room() > 0 }) }

func (q *Queue) await(holds func() bool) {
	for {
		q.mu.Lock()
		if holds() {
			q.mu.Unlock()
			return
		}
		changed := make(chan struct{})
		q.changed = append(q.changed, changed)
		q.mu.Unlock()
		<-changed
	}
}

func (q *Queue) write() {
	for p := q.next(nil); len(p) > 0; p = q.next(p) {
		// The error is ignored, because the stream reports refused bytes to readers.
		grown, _ := q.stream.Append(p)
		q.wrote(grown)
	}
}

func (q *Queue) next(written []byte) (p []byte) {
	q.queues.bytes.Add(-int64(len(written)))
	q.mu.Lock()
	p = q.waiting
	q.waiting = nil
	q.writing = len(p) > 0
	if q.writing && cap(written) >= cap(p) {
		q.waiting = written[:0] // two buffers alternate under load
	}
	hasRoom := q.hasRoom
	q.hasRoom = nil
	for _, changed := range q.changed {
		close(changed)
	}
	q.changed = nil
	q.mu.Unlock()
	if hasRoom != nil {
		hasRoom()
	}
	return p
}

package output

import (
	"sync"
	"sync/atomic"
)

const (
	// QueueBytesMax is what waits for the disk of one stream.
	QueueBytesMax = 64 << 10
	// queuedBytesMax is what waits of all of them together, but for a page of each, so that none is shut out by the others.
	queuedBytesMax = 16 << 20
	pageBytes      = 4 << 10
)

// Queues counts what waits for the disk.
type Queues struct{ bytes atomic.Int64 }

// Queue appends to a stream, on a goroutine that lives while there is something to append: a disk that takes its time holds up this
// stream and no other. One goroutine at a time asks for Room and puts.
type Queue struct {
	queues *Queues
	stream *Stream
	wrote  func(grown int64)

	mu      sync.Mutex
	waiting []byte
	writing bool
	changed []chan struct{} // closed when more was written
	hasRoom func()          // called once, when there is room
}

// NewQueue makes an empty one. wrote is called after each Append with what that answered.
func (q *Queues) NewQueue(stream *Stream, wrote func(grown int64)) *Queue {
	return &Queue{queues: q, stream: stream, wrote: wrote}
}

// Room is how many bytes may be put.
func (q *Queue) Room() int {
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

// OnRoom has f called as soon as there is room, on another goroutine. false: there is room already, and f is not called.
func (q *Queue) OnRoom(f func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.room() > 0 {
		return false
	}
	q.hasRoom = f
	return true
}

// Put takes a copy of p.
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

// Wait returns when all that was put is written, or refused by the disk.
func (q *Queue) Wait() { q.await(func() bool { return !q.writing }) }

// WaitForRoom returns when something may be put.
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
		// What the disk does not take is counted and lost; the stream says so to its readers.
		grown, _ := q.stream.Append(p)
		q.wrote(grown)
	}
}

// next books what was written, and returns what is to be written then, if anything.
func (q *Queue) next(written []byte) (p []byte) {
	q.queues.bytes.Add(-int64(len(written)))
	q.mu.Lock()
	p = q.waiting
	q.waiting = nil
	q.writing = len(p) > 0
	if q.writing && cap(written) >= cap(p) {
		q.waiting = written[:0] // a flood takes turns with two buffers
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

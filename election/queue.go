package election

import "sync"

// queue hands on what is put into it, in order. Nobody who puts something in waits: a lease's
// deadline must not.
type queue[T any] struct {
	mu   sync.Mutex
	list []T
	news chan struct{} // there is something; holds one
}

func newQueue[T any]() *queue[T] { return &queue[T]{news: make(chan struct{}, 1)} }

func (q *queue[T]) put(v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, v)
	select {
	case q.news <- struct{}{}:
	default: // it will be taken with what is there already
	}
}

func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

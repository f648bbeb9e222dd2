//go:build !linux

package proof

import (
	"context"
	"time"
)

// Server answers nobody.
type Server struct{}

// Serve serves nobody: there are no sockets without a file.
func Serve(string, func(context.Context, Question) Answer) (*Server, error) { return nil, nil }

// Close does nothing.
func (*Server) Close() {}

// Ask finds nobody.
func Ask(context.Context, Question, func(monotonic bool) time.Duration) (Answer, error) {
	return Answer{}, ErrNobody
}

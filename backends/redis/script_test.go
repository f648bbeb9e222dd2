package redis

import (
	"testing"

	"flockd/backends/backendtest/servers"
)

// bomb is an argument that can't be sent.
type bomb struct{}

func (bomb) MarshalBinary() ([]byte, error) { panic("no such thing") }

// A fault of the client's library costs one request, not the program.
func TestFault(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	lease := acquire(t, s, request("a"))
	_, err := s.run(t.Context(), inspectScript, "a", "", 0, bomb{})
	wantTrouble(t, err, "internal fault: no such thing")
	renew(t, s, lease)
}

package redis

import (
	"testing"

	"flockd/backends/backendtest/servers"
)

// bomb is an argument that can't be sent.
type bomb struct{}

func (bomb) MarshalBinary() ([]byte, error) { panic("no such thing") }

// What is sent is the script as it is written, by what Redis makes of it.
func TestBareScript(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	for _, sc := range []script{
		acquireScript, renewScript, watchScript, releaseScript, askScript, inspectScript, completeScript, completedScript, entriesScript, forgetScript,
		admitScript, highestScript,
	} {
		compiled := func(text string) any {
			return do(t, s, "EVAL", "return string.dump(assert(loadstring(ARGV[1], '=x')))", 0, text)
		}
		if compiled(sc.bare()) != compiled(sc.text()) {
			t.Errorf("is another script without its comments: %s", sc)
		}
		if size := len(sc.bare()); size > 12_000 {
			t.Errorf("%d bytes, which leave no room for the rest of a request: %s", size, sc)
		}
	}
}

// A fault of the client's library costs one request, not the program.
func TestFault(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	lease := acquire(t, s, request("a"))
	_, err := s.run(t.Context(), inspectScript, "a", "", 0, bomb{})
	wantTrouble(t, err, "internal fault: no such thing")
	renew(t, s, lease)
}

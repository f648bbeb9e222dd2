package guard

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"flockd/runner/tree"
)

func TestOrders(t *testing.T) {
	for _, want := range []Orders{
		{},
		{Kill: Never},
		{Kill: -time.Second, Monotonic: true},
		{Kill: 1<<62 + 3, Tree: tree.Identity{ID: "ä\x00b", Limit: 1<<64 - 1, Leader: 1 << 22, Born: 1<<64 - 2, Leads: true}},
	} {
		body := want.encode()
		if got, err := decode(body, Orders{}); err != nil || got != want {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
		if _, err := decode(body[:47], Orders{}); err == nil {
			t.Error("half of it is taken")
		}
	}
}

// However the pipe cuts them, the messages come out.
func TestCut(t *testing.T) {
	want := [][]byte{nil, []byte("a"), bytes.Repeat([]byte("b"), 300), {kindOrders, 0, 0, 0, 0}}
	kinds := []byte{'x', kindLegacy, kindOrders, 0}
	var stream []byte
	for n, body := range want {
		stream = append(stream, message(kinds[n], body)...)
	}
	for _, size := range []int{1, 2, 4, 5, 6, 7, 100, 305, len(stream)} {
		var got [][]byte
		var unread, seen []byte
		for piece := range slices.Chunk(stream, size) {
			unread = append(unread, piece...)
			for {
				kind, body, rest, ok := cut(unread)
				if !ok {
					break
				}
				got, seen = append(got, bytes.Clone(body)), append(seen, kind)
				unread = rest
			}
		}
		if !slices.EqualFunc(got, want, bytes.Equal) || !bytes.Equal(seen, kinds) || len(unread) > 0 {
			t.Errorf("in pieces of %d: %q of the kinds %q, left %q", size, got, seen, unread)
		}
	}
}

func TestCutOfAHugeLength(t *testing.T) {
	for _, text := range []string{"o\xff\xff\xff\xffabc", "o\xfb\xff\xff\xff12345", "o\x04\x00\x00\x00123"} {
		if kind, body, rest, ok := cut([]byte(text)); ok || string(rest) != text {
			t.Errorf("%q: %c %q %q", text, kind, body, rest)
		}
	}
}

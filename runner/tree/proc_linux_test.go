package tree

import (
	"fmt"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %d 1"
	for text, want := range map[string]stat{
		"12 (sh) S 1 12" + rest:             {"sh", 'S', 1, 12, -1, 77},
		"12 (a) Z 9 9 (b c) R 7 345" + rest: {"a) Z 9 9 (b c", 'R', 7, 345, -1, 77},
		"12 (x\n)) Z 2 3" + rest:            {"x\n)", 'Z', 2, 3, -1, 77},
	} {
		if got, ok := parseStat(fmt.Appendf(nil, text, want.born)); !ok || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "12 (sh)", "12 (sh) S 1 2 3", "12", ")(", "12 (sh) S x y" + rest} {
		if _, ok := parseStat([]byte(text)); ok {
			t.Errorf("%q is taken", text)
		}
	}
}

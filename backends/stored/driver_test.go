package stored

import "testing"

// What is a prefix needs no quotes anywhere; what isn't is refused, the empty one too.
func TestPlain(t *testing.T) {
	for prefix, want := range map[string]bool{
		"flockd": true, "_": true, "a1_b": true, "a23456789012345678901": true,
		"": false, "a234567890123456789012": false, "1a": false, "A": false, "a-b": false, "é": false, `a"`: false, "a b": false,
	} {
		if got := Plain(prefix); got != want {
			t.Errorf("%q: %t", prefix, got)
		}
	}
}

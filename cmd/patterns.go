package cmd

import (
	"strings"

	"flockd/backends"
)

// weight orders patterns: one without wildcards before all others, then the one
// with more characters that aren't wildcards.
func weight(pattern string) int {
	plain := len(pattern) - strings.Count(pattern, "*") - strings.Count(pattern, "?")
	if plain == len(pattern) {
		return backends.MaxKey + plain + 1
	}
	return plain
}

// matches reports whether key is one of those that pattern means: * stands for
// any characters, ? for one, and all others for themselves.
func matches(pattern, key string) bool {
	p, k := []rune(pattern), []rune(key)
	star, mark := -1, 0 // the last *, and where what it stands for ends
	i, j := 0, 0
	for j < len(k) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == k[j]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(string(p[i:]), "*") == ""
}

package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// at is FILE:LINE of the setting at path, or of the nearest thing that is it or
// holds it. The parser doesn't tell, so we look ourselves, with an eye for keys
// alone: it is for messages.
func (c *configFile) at(path ...string) string {
	var header []string
	best, found := 0, c.path
	for i, line := range strings.Split(c.text, "\n") {
		line = strings.TrimSpace(line)
		name := header
		if strings.HasPrefix(line, "[") {
			header = dottedKey(strings.TrimLeft(line, "[ \t"))
			name = header
		} else {
			name = append(slices.Clone(header), dottedKey(line)...)
		}
		if len(name) > best && len(name) <= len(path) && slices.Equal(name, path[:len(name)]) {
			best, found = len(name), fmt.Sprintf("%s:%d", c.path, i+1)
		}
	}
	return found
}

// dottedKey reads the key that a line begins with: a."b".c
func dottedKey(line string) (parts []string) {
	for {
		var part string
		switch {
		case strings.HasPrefix(line, `"`):
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return parts
			}
			part, _ = strconv.Unquote(quoted)
			line = line[len(quoted):]
		case strings.HasPrefix(line, "'"):
			part, line, _ = strings.Cut(line[1:], "'")
		default:
			end := strings.IndexAny(line+"=", ". \t=]#")
			part, line = line[:end], line[end:]
			if part == "" {
				return parts
			}
		}
		parts = append(parts, part)
		rest, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), ".")
		if !ok {
			return parts
		}
		line = strings.TrimLeft(rest, " \t")
	}
}

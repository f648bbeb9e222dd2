//go:build linux

package testscripts

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// fencingSections are the parts of docs/fencing.md that have blocks. Each takes all of its
// own.
var fencingSections = map[string]func(*page){}

func TestFencingPage(t *testing.T) {
	t.Parallel()
	for _, s := range sections(t, "fencing.md") {
		test := fencingSections[s.title]
		if test == nil && len(s.blocks) > 0 {
			t.Errorf("no test runs the blocks of %q", s.title)
		}
		if test == nil {
			continue
		}
		t.Run(s.title, func(t *testing.T) {
			t.Parallel()
			s.T = t
			test(s.page)
			s.done()
		})
	}
}

// section is a part of a page, with the blocks of that part alone.
type section struct {
	title string
	*page
}

// sections of docs/NAME, which readPage has looked over.
func sections(t *testing.T, name string) (all []section) {
	t.Helper()
	readPage(t, name)
	text, err := os.ReadFile(filepath.Join("../docs", name))
	must(t, err)
	heads := regexp.MustCompile(`(?m)^## (.*)$`).FindAllSubmatchIndex(text, -1)
	for i, head := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		all = append(all, section{string(text[head[2]:head[3]]), &page{T: t, blocks: blocksOf(text[head[1]:end])}})
	}
	return all
}

// fencingBlock is a block of a name, of a part of docs/fencing.md.
func fencingBlock(t *testing.T, title, name string) block {
	t.Helper()
	for _, s := range sections(t, "fencing.md") {
		for _, b := range s.blocks {
			if s.title == title && b.name == name {
				return b
			}
		}
	}
	t.Fatalf("there is no %s in %q", name, title)
	return block{}
}

//go:build linux

package testscripts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is one of docs/, whose every block a test runs.
type page struct {
	*testing.T
	blocks []block
}

// block is what stands between two fences. Its first line may be a comment that names
// the file that it is, or how it gets where it belongs.
type block struct{ language, name, text string }

var (
	fenced  = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	comment = regexp.MustCompile(`(?m)^# (/\S+|crontab -e|~/\S+|\./\S+)$`)
)

// readPage reads docs/NAME. When the test is over, each block must have been taken.
func readPage(t *testing.T, name string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs", name))
	must(t, err)
	p := &page{T: t, blocks: blocksOf(text)}
	if regexp.MustCompile(`(?m)^(    |\t)`).MatchString(fenced.ReplaceAllString(string(text), "")) {
		t.Errorf("%s: a block without a fence, which nobody runs", name)
	}
	return p
}

func blocksOf(text []byte) (blocks []block) {
	for _, found := range fenced.FindAllSubmatch(text, -1) {
		b := block{language: string(found[1]), text: string(found[2])}
		if name := comment.FindStringSubmatch(b.text); name != nil {
			b.name = name[1]
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// take is the page's next block, which must be of a language and name.
func (p *page) take(language, name string) block {
	p.Helper()
	if len(p.blocks) == 0 {
		p.Fatalf("no block is left for %s %s", language, name)
	}
	b := p.blocks[0]
	p.blocks = p.blocks[1:]
	if b.language != language || b.name != name {
		p.Fatalf("the next block is %s %q, not %s %q:\n%s", b.language, b.name, language, name, b.text)
	}
	return b
}

// done wants nothing left.
func (p *page) done() {
	p.Helper()
	for _, b := range p.blocks {
		p.Errorf("no test runs the block:\n%s", b.text)
	}
}

// install puts a block where it says that it belongs.
func (m *machine) install(b block) {
	m.Helper()
	switch {
	case b.name == "crontab -e":
		m.write("/tmp/crontab", 0o644, b.text)
		m.sh("crontab -u report /tmp/crontab")
	case strings.HasPrefix(b.text, "#!"):
		m.write(b.name, 0o755, b.text)
	default:
		m.write(b.name, 0o644, b.text)
	}
}

// inMachines runs each of the tests in a machine of its own, beside the others.
func inMachines(t *testing.T, boot func(*testing.T) *machine, tests map[string]func(*machine)) {
	for name, run := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(boot(t))
		})
	}
}

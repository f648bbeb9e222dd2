package cmd

import (
	"io"
	"strings"
)

// tableAhead is how many rows the widths of the columns are taken from.
const tableAhead = 1000

// table aligns rows. It keeps tableAhead of them at most, and a longer cell than those that
// it has seen, or than its column may be wide, moves the rest of its row.
type table struct {
	out    io.Writer
	most   []int // how wide each column may be; the last may be anything
	widths []int
	rows   [][]string
}

func newTable(out io.Writer, most ...int) *table {
	return &table{out: out, most: most, widths: make([]int, len(most))}
}

// row adds a row, with as many cells as there are columns.
func (t *table) row(cells ...string) error {
	t.rows = append(t.rows, cells)
	if len(t.rows) < tableAhead {
		return nil
	}
	return t.flush()
}

func (t *table) flush() error {
	for _, cells := range t.rows {
		for i, cell := range cells {
			if n := columnsOf(cell); n <= t.most[i] {
				t.widths[i] = max(t.widths[i], n)
			}
		}
	}
	for _, cells := range t.rows {
		var b strings.Builder
		for i, cell := range cells {
			b.WriteString(cell)
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", max(0, t.widths[i]-columnsOf(cell))+2))
			}
		}
		if _, err := io.WriteString(t.out, strings.TrimRight(b.String(), " ")+"\n"); err != nil {
			return err
		}
	}
	t.rows = t.rows[:0]
	return nil
}

package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// newSize is a content's length in bytes.
func newSize() *value[int64] { return unsetValue[int64]("BYTES", 0, parseSize) }

func parseSize(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	switch {
	case text == "":
		return 0, errEmpty
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("no file is as large as that")
	case err != nil:
		return 0, errors.New("a size is a number of bytes in digits alone")
	}
	return int64(n), nil
}

// contentOf is standard input, whose end is an error unless the content is as long as the
// flag says. An end alone says little: it is what is left of a writer that has failed, and
// of an ssh that was killed. Without the flag, an empty content is taken for one of these.
// heard is called before the end is told.
func contentOf(stdin *os.File, size *value[int64], heard func()) (io.Reader, error) {
	if err := checkContent(stdin); err != nil {
		return nil, err
	}
	return &wholeContent{from: stdin, size: size.of, sized: size.given(), heard: heard}, nil
}

// wholeContent is a content that ends with an error where it isn't whole.
type wholeContent struct {
	from      io.Reader
	size, has int64
	sized     bool
	heard     func()
}

func (c *wholeContent) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.has += int64(n)
	switch {
	case c.sized && c.has > c.size:
		return n, fmt.Errorf("its content goes on after the %d bytes of --size", c.size)
	case err != io.EOF:
		return n, err
	case c.has < c.size:
		return n, fmt.Errorf("its content ends after %d bytes, and not after the %d of --size", c.has, c.size)
	case c.has == 0 && !c.sized:
		return n, errNoContent
	}
	c.heard()
	return n, io.EOF
}

var errNoContent = errors.New("its content is empty")

// checkContent refuses what would be taken for an empty content by mistake. Where we are
// started without stdin, the runtime has opened /dev/null in its place, for reading and
// writing; a shell opens it for reading alone.
func checkContent(stdin *os.File) error {
	info, err := stdin.Stat()
	if err != nil {
		return usage("", "standard input can't be read: %w", bare(err))
	}
	mode := accessOf(stdin)
	null, err := os.Stat(os.DevNull)
	switch {
	case mode == unix.O_WRONLY:
		return usage("", "standard input can't be read: it is open for writing alone")
	case mode == unix.O_RDWR && err == nil && os.SameFile(info, null):
		return usage("--size 0 </dev/null if DEST is to be empty", "standard input is closed")
	case info.IsDir():
		return usage("", "standard input is a folder")
	}
	return nil
}

// accessOf is how a file was opened: O_RDONLY, O_WRONLY or O_RDWR; -1: it can't be told.
func accessOf(file *os.File) int {
	mode := -1
	raw, err := file.SyscallConn()
	if err != nil {
		return mode
	}
	raw.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err == nil {
			mode = flags & unix.O_ACCMODE
		}
	})
	return mode
}

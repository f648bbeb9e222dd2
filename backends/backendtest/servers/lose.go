package servers

import (
	"bytes"
	"encoding/binary"
	"sync"
)

// loss is a reply that is to be lost.
type loss struct {
	match    []byte
	orderly  bool // the connection ends, and isn't reset
	happened chan struct{}
}

// LoseReply passes the next request that contains match, swallows its whole reply and
// then resets that connection: the server did what was asked, and the client can't
// know. The channel is closed when that has happened.
//
// On connections in clear only. On HTTP/2, as etcd speaks it, the reply is the rest of
// the request's stream, and replies to other requests that come in between are lost as
// well. Otherwise, as with Redis, it is what comes next, so the client must have no
// other request open on that connection; Redis' own clients open several in a pipeline.
func (x *TCPProxy) LoseReply(match []byte) <-chan struct{} {
	return x.lose(&loss{match: match})
}

// EndBeforeReply is LoseReply with the orderly end of the connection, as when a server
// is shut down, in place of the reset.
func (x *TCPProxy) EndBeforeReply(match []byte) <-chan struct{} {
	return x.lose(&loss{match: match, orderly: true})
}

func (x *TCPProxy) lose(l *loss) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	l.happened = make(chan struct{})
	x.losses = append(x.losses, l)
	return l.happened
}

// take is the first loss for which found is true, and not again.
func (x *TCPProxy) take(found func(match []byte) bool) *loss {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, l := range x.losses {
		if found(l.match) {
			x.losses = append(x.losses[:i:i], x.losses[i+1:]...)
			return l
		}
	}
	return nil
}

// replies knows which reply of a connection is to be lost. The zero value: none.
type replies struct {
	mu       sync.Mutex
	started  bool
	http2    bool
	requests frames
	answers  frames
	last     []byte // the end of the requests so far, without HTTP/2
	lost     *loss  // nil: none
	stream   uint32 // of lost
}

// preface is what an HTTP/2 client says first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// asked looks at what is about to be sent to the server.
func (r *replies) asked(x *TCPProxy, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost != nil {
		return
	}
	if !r.started {
		r.started = true
		r.http2 = bytes.HasPrefix(b, []byte(preface))
		b = bytes.TrimPrefix(b, []byte(preface))
	}
	if r.http2 {
		r.askedFrames(x, b)
		return
	}
	before := len(r.last)
	r.last = append(r.last, b...)
	r.lost = x.take(func(match []byte) bool { // it may have come in two reads
		return bytes.Contains(r.last[max(0, before-len(match)+1):], match)
	})
	const kept = 4 << 10 // longer than a match
	r.last = bytes.Clone(r.last[max(0, len(r.last)-kept):])
}

func (r *replies) askedFrames(x *TCPProxy, b []byte) {
	r.requests.add(b, func(f frame) {
		if r.lost == nil && f.kind == data {
			r.lost = x.take(func(match []byte) bool { return bytes.Contains(f.payload, match) })
			r.stream = f.stream
		}
	})
}

// answered looks at what came from the server: whether the client may not see it, and
// the loss that is complete with it.
func (r *replies) answered(b []byte) (complete *loss, swallowed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := !r.http2
	if r.http2 {
		r.answers.add(b, func(f frame) { ended = ended || f.stream == r.stream && f.ends() })
	}
	if r.lost == nil || !ended {
		return nil, r.lost != nil
	}
	return r.lost, true
}

// frames takes HTTP/2 apart (RFC 9113, section 4.1).
type frames struct{ rest []byte }

type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

const (
	data    = 0
	headers = 1
	resets  = 3 // RST_STREAM

	endStream  = 0x1
	headerSize = 9
)

// ends tells whether nothing follows in the frame's stream.
func (f frame) ends() bool {
	return f.kind == resets || (f.kind == data || f.kind == headers) && f.flags&endStream != 0
}

// add calls each for every frame that is complete with b.
func (fs *frames) add(b []byte, each func(frame)) {
	fs.rest = append(fs.rest, b...)
	for len(fs.rest) >= headerSize {
		head := binary.BigEndian.Uint32(fs.rest)
		size := headerSize + int(head>>8)
		if len(fs.rest) < size {
			return
		}
		each(frame{
			kind: byte(head), flags: fs.rest[4],
			stream:  binary.BigEndian.Uint32(fs.rest[5:]) & (1<<31 - 1), // the first bit is reserved
			payload: fs.rest[headerSize:size],
		})
		fs.rest = fs.rest[size:]
	}
}

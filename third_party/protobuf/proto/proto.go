// Package proto stands in for the module's package of that name, the old front end
// of google.golang.org/protobuf, in what etcd's client uses of it.
package proto

import (
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/runtime/protoiface"
	"google.golang.org/protobuf/runtime/protoimpl"
)

// Message is a generated message of either generation.
type Message = protoiface.MessageV1

// Clone is a deep copy of m.
func Clone(m Message) Message {
	return protoimpl.X.ProtoMessageV1Of(proto.Clone(protoimpl.X.ProtoMessageV2Of(m)))
}

// Merge adds what src has to dst.
func Merge(dst, src Message) {
	proto.Merge(protoimpl.X.ProtoMessageV2Of(dst), protoimpl.X.ProtoMessageV2Of(src))
}

// CompactTextString is m in one line, for people.
func CompactTextString(m Message) string {
	return prototext.MarshalOptions{}.Format(protoimpl.X.ProtoMessageV2Of(m))
}

package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// warm has the codec learn the messages of a transaction, which takes a millisecond
// the first time, while the connection is made.
func warm() {
	for _, m := range []proto.Message{
		&pb.TxnRequest{
			Compare: []*pb.Compare{{TargetUnion: &pb.Compare_CreateRevision{}}},
			Success: []*pb.RequestOp{
				{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{}}},
				{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{}}},
				{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{}}},
			},
		},
		&pb.TxnResponse{
			Header: &pb.ResponseHeader{},
			Responses: []*pb.ResponseOp{
				{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{}}}}},
				{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}},
				{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{}}},
			},
		},
		&pb.LeaseGrantRequest{}, &pb.LeaseGrantResponse{},
	} {
		proto.Size(m)
	}
}

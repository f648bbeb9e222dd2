module github.com/grpc-ecosystem/grpc-gateway/v2

go 1.26.0

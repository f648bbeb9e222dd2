module flockd

go 1.26

module example.org/mq

go 1.19

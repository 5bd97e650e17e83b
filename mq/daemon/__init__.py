"""The process `mq`: its command line, the sockets it listens on, the files of tokens and
certificate that it reads at start and on SIGHUP, its children, its word to systemd. What it answers
belongs in `mq.web` and `mq.admin`, what it does to messages in `mq.store`."""

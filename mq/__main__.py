from mq.cli import main

main()

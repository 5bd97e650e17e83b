from mq_mover.cli import main

main()

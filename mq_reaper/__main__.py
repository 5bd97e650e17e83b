from mq_reaper.cli import main

main()

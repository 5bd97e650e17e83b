from mq.ctl import main

main()

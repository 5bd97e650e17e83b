from vsqs.cli import main

main()

"""A day in ten minutes: mixed load, and everything that can go wrong with a process, a disk or a
clock, at random from one seed. The clients keep a history of what they asked and were answered;
`checker` judges it against the promises of docs/reliability.md."""

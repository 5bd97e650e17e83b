"""Messages as lines of JSON: one line parsed or written, and the export and import that `mqctl` and
`vsqs` share. What a batch over HTTP makes of its lines belongs in `mq.web`."""

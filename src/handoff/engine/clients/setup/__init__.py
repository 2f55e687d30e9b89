"""`handoff setup`: what is put into this machine and this project, written down so that it can be taken out again."""

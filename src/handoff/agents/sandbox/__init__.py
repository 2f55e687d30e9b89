"""What holds a program in its workspace: bubblewrap, Landlock, the macOS profile."""

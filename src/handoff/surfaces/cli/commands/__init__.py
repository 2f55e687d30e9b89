"""One file a group of commands; the catalog names them."""

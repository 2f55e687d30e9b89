"""Commands around a batch: an example, the whole run, staying with one."""

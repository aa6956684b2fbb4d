"""The first version of a kernel, written from the operations of its reference where nobody gives one."""

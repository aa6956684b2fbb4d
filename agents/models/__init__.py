"""Model providers: one file each, named in `base.PROVIDERS`; `playbook` is the built-in one."""

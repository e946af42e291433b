"""mini-attn: a small package with flash-attn's build interface, for hosts without the patience for the real one."""

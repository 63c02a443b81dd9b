"""iGLB: the controller knows the jobs and plans every path."""

"""Our programs under the names that scripts for p4c and BMv2 start."""

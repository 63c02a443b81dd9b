"""Swift: windows from round trips and a target for them (docs/swift.md)."""

"""One folder a mechanism; `contract` says what a mechanism may be."""

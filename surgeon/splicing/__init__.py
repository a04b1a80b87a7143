"""The room that changes graphs: nodes made of fragments, put in place, named, shared, written as byte ranges."""

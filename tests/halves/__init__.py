"""Half precision over all exports of the tests: what surgeon and other converters make of them."""

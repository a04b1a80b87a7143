"""`python -m surgeon` is `surgeon`."""

from surgeon.console.cli import main

if __name__ == "__main__":
    main(prog_name="surgeon")

"""`python -m asyncagents`, where the command itself is not on the path."""

from asyncagents.cli.main import main

if __name__ == "__main__":
    main(prog_name="asyncagents")

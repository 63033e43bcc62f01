"""`python -m belated` is the command `belated`."""

from belated.cli import app

if __name__ == "__main__":
    app(prog_name="belated")

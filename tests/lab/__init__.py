"""The test lab: containers that stand in for rented GPU hosts.  See README.md beside this file."""

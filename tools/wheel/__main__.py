from plimsoll.command import plimsoll

plimsoll()

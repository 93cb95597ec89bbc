"""Files that come from outside: opened without waiting, and read within bounds. Who reads them words the errors."""

"""Studies as YAML files; `zcbench list studies` names them."""

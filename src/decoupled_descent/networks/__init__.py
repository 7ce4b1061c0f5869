"""Networks as they are: any module, trained together with copies that leave rows out."""

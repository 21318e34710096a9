"""Words that streets are made of, in the languages of Europe and the Americas."""

from weft.detect.tables import table

ROADS = table(
    """
street streets st str road rd avenue ave av boulevard blvd lane ln drive dr court ct courts
square squares sq terrace ter place pl way close crescent cres gardens grove mews hill highway
hwy parkway pkwy circle cir trail trl row walk quay alley plaza expressway turnpike esplanade
parade rise wharf bypass loop pass extensions
"""
)
"""What follows the name of a street where the number stands first."""

LEADERS = table(
    """
rue avenue av boulevard bd chemin impasse place quai allée via viale corso piazza vicolo strada
largo borgo contrada calle avda avenida paseo plaza camino carrera carretera rua travessa praça
estrada alameda rúa ulica ul aleja al náměstí ulice třída trg cesta calea bulevardul odos
strasse straße λεωφόρος οδός jalan
"""
)
"""What stands in front of the name of a street."""

FOLLOWERS = table(
    """
utca u út útja útca tér tere körút krt rkp köz sor strasse straße platz weg allee gasse street
road rd terrasse vej väg tie katu gade gata gate str kapu
"""
)
"""What follows the name of a street where the number stands last."""

ENDINGS = (
    "straße", "strasse", "str", "gasse", "weg", "allee", "platz", "damm", "ufer", "steig",
    "markt", "brücke", "gade",
    "vej", "vænget", "allé", "stræde", "gatan", "vägen", "gränd", "backe", "gata", "veg",
    "vegen", "veien", "vei", "gaten",
    "bakken", "svingen", "stien", "vollen", "terrasse", "katu", "ntie", "stie", "kuja", "polku",
    "raitti", "kaari",
    "straat", "laan", "plein", "kade", "gracht", "dijk", "steenweg", "hove", "braut", "stræti",
    "vegur", "götu", "gatu",
    "hagi", "rodda", "utca", "körút", "tänav", "puiestee", "iela",
)  # fmt: skip
"""How a street's name ends where it is one word."""

LINKS = table(
    """
de del della dei di da do dos das du des la le les el los las san santa st saint sankt van von
der den zum zur am an al en
"""
)

UNITS = "apt|apartment|suite|ste|unit|flat|floor|room|dept|app|appartement|wohnung|piso|lgh|box"

COUNTRIES = table(
    """
afghanistan albania algeria argentina armenia australia austria azerbaijan bangladesh belarus
belgium bolivia brazil bulgaria cambodia canada chile china colombia croatia cyprus czechia
denmark ecuador egypt england estonia ethiopia finland france georgia germany ghana greece
greenland hungary iceland india indonesia iran iraq ireland israel italy japan jordan kazakhstan
kenya korea kuwait latvia lebanon lithuania luxembourg malaysia malta mexico moldova morocco
nepal netherlands nigeria norway pakistan peru philippines poland portugal qatar romania russia
scotland serbia singapore slovakia slovenia spain sweden switzerland syria taiwan thailand
tunisia turkey ukraine uruguay usa venezuela vietnam wales yemen zambia greenlander zealand
kingdom states africa republic
"""
)

STATES = table(
    """
AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY
NC ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY DC PR GU VI AA AE AP MP AS
"""
)

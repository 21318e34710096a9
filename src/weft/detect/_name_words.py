"""Words that tell a name from another capitalised word; written by hand, not complete."""

from weft.detect.tables import table

TITLES = table(
    """
mr mrs ms miss mx dr prof professor sir madam madame mme mlle monsieur herr frau señor señora
senor senora sr sra signor signora sig dott don doña lady lord rev reverend fr father sister
brother capt captain col colonel sgt sergeant lt lieutenant gen general judge justice hon
president senator governor mayor dame rabbi imam sheikh
"""
)

PARTICLES = table(
    """
de del della di da dos das do du la le van von der den ter ten zu zur vom bin ibn al el af av y
e st
"""
)

SURNAMES = table(
    """
adams aguilar alexander ali allen almeida alvarez anderson andrews armstrong arnold bailey baker
barnes barros bauer becker bell bennett berg bernard bianchi black blanc bonnet borg bos bosch
boyd bradley braun brooks brown bruno bryant burns butler byrne campbell carlson carpenter carr
carroll carter carvalho castillo castro chang chapman chavez chen choi chung clark clarke cohen
cole coleman collins colombo conti cook cooper costa cox crawford cruz cunningham da daniels
davies davis dawson delgado diaz dixon dubois duncan dunn dupont durand edwards ellis esposito
evans ferguson fernandes fernandez ferrari ferreira fischer fisher flores ford foster fournier
fox freeman fuchs garcia gardner garnier gibson girard gomes gomez gonzales gonzalez graham gray
greco green greene griffin gruber guerrero gutierrez guzman haas hall hamilton hansen hanson
harper harris harrison hart hartmann harvey hayes henderson henry hernandez herrera hicks hill
hoffman hoffmann holmes horn horvat howard huang huber hudson hughes hunt hunter hussain ivanov
jackson jacobs james jansen janssen jansson jenkins jensen jimenez johansen johansson johnson
johnston jones jordan joseph kaiser kang kelley kelly kennedy khan kim king klein knight koch
kowalski kovacs kozak kramer kraus krause krueger kumar lambert lang lange larsen larsson
lawrence lee lefebvre lehmann leroy lewis li lin lindberg liu long lopes lopez lund ma maier
marino marques marshall martin martinez martini mason matthews mayer mccarthy mcdonald medina
mendez mendoza meyer miller mills mitchell moore morales moreau moreno morgan morris morrison
müller mueller murphy murray myers nagy navarro nelson neumann newman nguyen nielsen novak nowak
nunez obrien oliveira olsen olsson ortega ortiz owens palmer park parker patel patterson payne
pereira perez perkins perry peters petersen peterson petrov pfeiffer phillips pierce pinto
popescu porter powell price ramirez ramos reed reid reyes reynolds ribeiro ricci rice richards
richardson richter riley rivera roberts robertson robinson rodrigues rodriguez rogers romano
romero rose ross rossi roth rousseau roux ruiz russell russo ryan salazar sanchez sanders
santana santos sato scharf schmid schmidt schmitt schmitz schneider scholz schreiber schröder
schroeder schubert schultz schulz schulze schuster schwartz schwarz scott sharma shaw silva
simmons simon simpson singh smit smith snyder soto souza spencer stein stephens stevens stewart
stone sullivan suzuki svensson szabo tanaka tang taylor thomas thompson thomsen torres tran
tucker turner vargas vasquez vega visser vogel wagner walker wallace wang ward warren washington
watanabe watson weaver weber webb weber weiss wells west wheeler white williams williamson
willis wilson winkler winter wolf wolff wong wood woods wright wu yamamoto yang yilmaz young
zhang zhao zimmermann
"""
)

SURNAME_WORDS = table(
    """
bell black blanc brown butler carpenter carter cole cook cooper cox cruz da fisher ford foster
fox freeman gardner gray green hall hamilton hart hill horn hudson hunt hunter jackson jordan
joseph kim king knight lang lange lee li lin long ma mason mills nelson palmer park pierce
porter price reed rice rose santos scott stein stone taylor thomas tucker turner walker ward
warren washington weaver wells west wheeler white winter wolf wood woods wu yang young bruno
alexander henry james simon martin marino victoria berg bos bosch horvat kang tang chang chen
ali horn roman peters stephens
"""
)
"""Surnames that are words, places or given names as well; alone they say nothing."""

SURE_ENDS = (
    "sson", "nsen", "dsen", "lsen", "rsen", "ksen", "tsen", "ssen", "ová", "ić", "ovic", "evic",
    "ovich", "evich", "dóttir",
    "dottir", "owski", "ewski", "owska", "ewska", "ński", "ńska", "czyk", "czak", "marek",
    "wicz", "enko", "chuk", "kova",
    "nova", "lova", "rova", "skaya", "skaia", "escu", "eanu", "shvili", "idze", "oğlu", "oglu",
    "akis", "opoulos", "poulou",
    "iadis", "ainen", "einen", "onen", "anen", "änen", "önen", "sdatter", "quist", "qvist",
    "ström", "ández", "íguez",
    "ález", "énez", "andez", "iguez", "squez", "alez", "szky", "ský", "ayev", "iyev", "adiev",
    "kov", "nov", "mov", "lov",
    "rov", "eyev", "ffy", "nsson", "lund", "lundh", "gren", "gaard", "gård", "halmi", "hazi",
    "házi", "ényi",
)  # fmt: skip
"""How a surname ends, where hardly any other word does."""

SURNAME_ENDS = (
    *SURE_ENDS, "son", "sen", "yan", "idis", "inen", "stad", "berg", "mann", "meier", "mayer",
    "bauer", "huber", "stein", "feld",
    "dorf", "wald", "hofer", "inger", "elli", "etti", "ucci", "acci", "otti", "oni", "ini",
    "eau", "ault", "oux", "stra", "sma",
    "ema", "kamp", "veld", "moto", "yama", "mura", "saki", "zaki", "hara", "guchi", "sky", "thy",
    "esi", "ev", "ov", "eva", "ova",
    "shin", "kin", "tsev", "ski", "ska", "uez", "ides", "ález", "ares", "illo", "eira", "inho",
    "nyi", "ay", "ec", "ek", "ák", "ký",
)  # fmt: skip
"""How a surname ends; other words do as well."""

PERSON_VERBS = (
    "lives", "lived", "shouted", "whispered", "smiled", "laughed", "replied", "was born",
    "spent a", "had given", "has given",
    "gave", "is from", "works for", "works at", "will be talking", "is very", "is a very",
    "just has to", "explained", "sang",
)  # fmt: skip
"""What people do, and few other things."""

NOT_NAMES = table(
    """
the a an i my your his her our their its this that these those it he she we they you who what
when where why how which please hello hi hey dear thanks thank yes no ok okay can could would
should will shall may might must do does did is are was were be been being am have has had if
then else and or but not nor so for from to in on at by of with about as into after before since
until during under over between unlike like maybe perhaps also just only very all any some each
every both either neither more most other another such own same new old first last next one two
three four five six seven eight nine ten name date time phone email address website mobile fax
desk office home work user bot agent customer client account card credit bank order number code
zip box suite apt apartment unit floor street road avenue lane drive court square place park
bridge north south east west northern southern eastern western central upper lower great big
little monday tuesday wednesday thursday friday saturday sunday january february march april
june july august september october november december inc llc ltd corp corporation company group
holdings bank university college school institute hospital department ministry council committee
association foundation society club orchestra museum church hotel restaurant airport station
county city state country united states kingdom republic king queen prince princess act title
section chapter article part figure table page line error warning note file data test class
function method object value type list string json http https api url sql select insert update
delete create true false null none return import def main run add remove set get put use using
used see need want let make made take here there now today tomorrow yesterday christmas easter
english french german spanish italian russian chinese japanese american british european polish
norwegian swedish danish finnish dutch greek turkish arabic hebrew hungarian czech croatian
icelandic personal info billing shipping regards sincerely cheers best kind yours subject re fw
fwd cc bcc attn ps directed produced written mission statement wisdom discipline god lord jesus
internet google microsoft apple amazon facebook twitter linkedin python java javascript linux
windows android github docker kubernetes postgres redis react airlines flight gold silver hall
island islands lake mountain river valley beach hill hills woods day night morning evening week
month year
"""
)

ORGANISATION = table(
    """
inc llc ltd corp corporation company co group holdings bank university college school institute
hospital orchestra foundation society partners associates technologies technology systems
software solutions services capital insurance investments consulting industries international
labs media networks airlines motors foods energy health financial gmbh ag sa srl bv nv oy ab as
plc street st road rd avenue ave lane drive court square place park bridge airport station
county city island lake river valley beach hill prize award festival stadium center centre
theatre museum
"""
)
